# One file, a target for each image: docker build --target company-contacts -t localhost/contacts/company-contacts .
# Another base image, such as one of a mirror or with a digest:
#   docker build --build-context node:24.21.0-trixie-slim=docker-image://registry.example.com/node@sha256:… …

# Builds on the machine's own architecture: what is copied from here has no native code.
FROM --platform=$BUILDPLATFORM node:24.21.0-trixie-slim AS build
WORKDIR /build
# pnpm in the version that wrote the lock file
RUN npm install --global --no-audit --no-fund pnpm@12.21.0
RUN pnpm config set store-dir /store
# What the lock file names, before the sources: a change of a source file fetches and unpacks nothing.
COPY package.json pnpm-lock.yaml pnpm-workspace.yaml .pnpmfile.cjs ./
COPY patches patches
RUN --mount=type=cache,id=contacts-pnpm,target=/store pnpm fetch
COPY . .
RUN --mount=type=cache,id=contacts-pnpm,target=/store \
  pnpm install --frozen-lockfile --prefer-offline && sh tools/deploy.sh /out

FROM node:24.21.0-trixie-slim AS runtime
LABEL org.opencontainers.image.title=contacts org.opencontainers.image.version=0.1.0 org.opencontainers.image.licenses=MIT
ENV NODE_ENV=production
USER node
WORKDIR /app

FROM runtime AS service
ENV HOST=0.0.0.0
# bash opens the connection: a Node.js process for every check would cost more than the service.
HEALTHCHECK --interval=5s --timeout=5s --start-period=20s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 'GET /health/ready HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
CMD ["node", "dist/main.js"]

FROM service AS personal-contacts
ENV PORT=3001
EXPOSE 3001
COPY --from=build /out/services/personal-contacts ./
# The introduction of /docs. Seen from dist, its place is the same as in the repository.
COPY --chmod=644 docs/bot.md /docs/bot.md

FROM service AS company-contacts
ENV PORT=3000
EXPOSE 3000
COPY --from=build /out/services/company-contacts ./
COPY --chmod=644 docs/partners.md /docs/partners.md

FROM service AS crm-sync
ENV PORT=3002
EXPOSE 3002
COPY --from=build /out/workers/crm-sync ./

FROM runtime AS cli
COPY --from=build /out/tools/cli ./
ENTRYPOINT ["node", "dist/main.js"]
