# The image of Leat: docs/containers.md. Build it in the root of the repository: docker build --tag leat .

FROM node:26-slim AS build
WORKDIR /leat
COPY . .
RUN npm ci
RUN npm run package
# The package has no dependencies. --prefix makes a folder that is copied as a whole into the next stage.
RUN npm install --global --prefix /installed --offline --no-audit --no-fund ./dist/leat-*.tgz

FROM node:26-slim
COPY --from=build /installed/ /usr/local/
COPY deploy/container/health.mjs /usr/local/lib/leat/health.mjs
# A new volume gets the owner and mode of the folder that it is mounted on.
RUN install --directory --owner=1000 --group=1000 --mode=0700 /data
# Commands store a login where a read-only root lets them.
ENV LEAT_HOST=0.0.0.0 LEAT_STORE=sqlite:/data/leat.db XDG_CONFIG_HOME=/tmp
# Leat reads a file .env here, if one is mounted.
WORKDIR /
# The user "node" of the base image. By number, as Kubernetes checks runAsNonRoot only for numbers.
USER 1000:1000
VOLUME /data
EXPOSE 8080 6060
STOPSIGNAL SIGTERM
# Liveness, as Docker Swarm replaces an unhealthy container: a restart does not repair a database.
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m --retries=3 \
  CMD ["node", "/usr/local/lib/leat/health.mjs"]
# The program is process 1, without a shell or launcher above it: the launcher of the package replaces itself.
ENTRYPOINT ["leat"]
CMD ["start"]
