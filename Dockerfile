# The command in a small image:
#
#   docker build -t bedload .
#   docker run --rm -v "$PWD:/data" bedload ingest flights.bedload departures flights.csv --time departure

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN make deb

FROM debian:bookworm-slim
COPY --from=build /src/target/deb/bedload_*.deb /tmp/
RUN dpkg -i /tmp/bedload_*.deb && rm /tmp/bedload_*.deb
WORKDIR /data
ENTRYPOINT ["bedload"]
