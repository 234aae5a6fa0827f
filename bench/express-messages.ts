/**
 * The baseline for the message API: the same three endpoints as usually written with Express,
 * express-oauth2-jwt-bearer, helmet, cors and nocache.
 */
import cors from 'cors';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import {
  auth,
  claimIncludes,
  InsufficientScopeError,
  InvalidTokenError,
  UnauthorizedError,
} from 'express-oauth2-jwt-bearer';
import helmet from 'helmet';
import nocache from 'nocache';

const { TOKEN_AUDIENCE: audience = '', TOKEN_ISSUER_DOMAIN: domain = '' } = process.env;
const { CLIENT_ORIGIN_URL: origin = '' } = process.env;

const requireToken = auth({
  audience,
  issuer: `https://${domain}/`,
  jwksUri: `https://${domain}/.well-known/jwks.json`,
  tokenSigningAlg: 'RS256',
});

const app = express();
app.disable('x-powered-by');
app.use(
  helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { 'default-src': ["'none'"], 'frame-ancestors': ["'none'"] },
    },
    crossOriginEmbedderPolicy: true,
    frameguard: { action: 'deny' },
    hsts: { maxAge: 31_536_000 },
  }),
);
app.use(nocache());
app.use(
  cors({
    origin,
    methods: ['GET'],
    allowedHeaders: ['Authorization', 'Content-Type'],
    maxAge: 86_400,
  }),
);

const messages = express.Router();
messages.get('/public', say('This is a public message.'));
messages.get('/protected', requireToken, say('This is a protected message.'));
messages.get(
  '/admin',
  requireToken,
  claimIncludes('permissions', 'read:admin-messages'),
  say('This is an admin message.'),
);
app.use('/api/messages', messages);
app.use((_request, response) => {
  response.status(404).json({ message: 'Not Found' });
});

const explain: ErrorRequestHandler = (error, _request, response, next) => {
  if (error instanceof InsufficientScopeError) {
    response.status(403).json({ message: 'Permission denied' });
  } else if (error instanceof InvalidTokenError) {
    response.status(401).json({ message: 'Bad credentials' });
  } else if (error instanceof UnauthorizedError) {
    response.status(401).json({ message: 'Requires authentication' });
  } else if (error === undefined) next();
  else response.status(500).json({ message: 'Internal Server Error' });
};
app.use(explain);

function say(text: string): RequestHandler {
  return (_request, response) => {
    response.json({ text });
  };
}

const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') process.send?.({ port: address?.port });
});
process.on('disconnect', () => process.exit(0));
