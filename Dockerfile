# One file, a target for each image: docker build --target company-contacts -t localhost/contacts/company-contacts .
# Use a name with a digest for a reproducible base image: see docs/deploy.md.
ARG NODE_IMAGE=node:24-trixie-slim

# Builds on the machine's own architecture: what is copied from here has no native code.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
WORKDIR /build
# pnpm in the version that wrote the lock file
RUN npm install --global --no-audit --no-fund pnpm@12.21.0
COPY . .
RUN pnpm install --frozen-lockfile \
 && node tools/build.mjs services/personal-contacts services/company-contacts workers/crm-sync tools/cli \
 && for image in personal-contacts company-contacts crm-sync cli; do sh tools/deploy.sh "$image" "/out/$image" || exit 1; done

FROM ${NODE_IMAGE} AS runtime
LABEL org.opencontainers.image.title=contacts org.opencontainers.image.version=0.1.0
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
COPY --from=build /out/personal-contacts ./
# The introduction of /docs. Seen from dist, its place is the same as in the repository.
COPY docs/bot.md /docs/bot.md

FROM service AS company-contacts
ENV PORT=3000
EXPOSE 3000
COPY --from=build /out/company-contacts ./
COPY docs/partners.md /docs/partners.md

FROM service AS crm-sync
ENV PORT=3002
EXPOSE 3002
COPY --from=build /out/crm-sync ./

FROM runtime AS cli
COPY --from=build /out/cli ./
ENTRYPOINT ["node", "dist/main.js"]
