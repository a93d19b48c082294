# One file, a target for each service and one for the operator's command:
#   docker build --target company-contacts -t contacts/company-contacts .
# Use a name with a digest for a reproducible base image: see docs/operators.md.
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS pnpm
WORKDIR /build
# pnpm in the version that wrote the lock file
RUN npm install --global --no-audit --no-fund pnpm@12.21.0

# Only these files decide what is installed: a change of the sources installs nothing again.
FROM pnpm AS manifests
COPY . .
RUN mkdir /manifests && cp -r --parents pnpm-lock.yaml pnpm-workspace.yaml .pnpmfile.cjs patches $(find . -name package.json) /manifests

FROM pnpm AS build
COPY --from=manifests /manifests ./
RUN pnpm install --frozen-lockfile
COPY . .
RUN node tools/build.mjs services/personal-contacts services/company-contacts tools/cli
# The images have no optional packages, such as the formatter of the log on a terminal.
RUN for service in personal-contacts company-contacts cli; do \
      pnpm --filter "@contacts/$service" deploy --legacy --prod --no-optional "/out/$service" || exit 1; \
    done

FROM ${NODE_IMAGE} AS runtime
LABEL org.opencontainers.image.title=contacts org.opencontainers.image.version=0.1.0
ENV NODE_ENV=production
USER node
WORKDIR /app

FROM runtime AS service
ENV HOST=0.0.0.0
HEALTHCHECK --interval=5s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/ready`).then((response) => process.exit(response.ok ? 0 : 1), () => process.exit(1))"]
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

FROM runtime AS cli
COPY --from=build /out/cli ./
ENTRYPOINT ["node", "dist/main.js"]
