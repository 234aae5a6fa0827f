/**
 * An API that requires tokens of an issuer, as in the guide of
 * `express-oauth2-jwt-bearer`: `node guarded-api.ts <issuer> <audience>`. It sends its port to
 * the process that forked it and ends with it.
 */
import type { AddressInfo } from 'node:net';
import express, { type Request, type Response } from 'express';
import { auth, claimIncludes, requiredScopes } from 'express-oauth2-jwt-bearer';

const [issuerBaseURL = '', audience = ''] = process.argv.slice(2);
const sendClaims = (request: Request, response: Response): void => {
  response.json(request.auth?.payload);
};

const app = express();
app.use(auth({ issuerBaseURL, audience }));
app.get('/protected', sendClaims);
app.get('/scope', requiredScopes('read:admin-messages'), sendClaims);
app.get('/permission', claimIncludes('permissions', 'read:admin-messages'), sendClaims);

const server = app.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.(port);
});
process.once('disconnect', () => process.exit());
