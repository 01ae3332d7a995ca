"""Serves a DuckDB database of readings: `duckdb.py SOCKET DATABASE MEMORY_BYTES KEY`.

A request is a line of JSON, `{"do": ..., ...}`, and, if it has "bytes", so many bytes of an Arrow IPC stream. The answer is a
line of JSON with the seconds that DuckDB took, and so many bytes of a stream if it says so. Each connection has a cursor
and a thread of its own. Rows go in as Arrow tables, which DuckDB scans without a copy
(https://duckdb.org/docs/stable/guides/python/import_arrow), and a single row as the parameters of an INSERT, which takes less
time; a commit is synced. There is no index: DuckDB's documentation advises none for loads and ranges
(https://duckdb.org/docs/stable/guides/performance/indexing), whose zone maps skip row groups. If KEY is "key", time and sensor
are the primary key, and rows are put by `INSERT OR REPLACE`.
"""

import json
import os
import socketserver
import sys
import threading
import time

import duckdb
import pyarrow as pa

SCHEMA = '"at" TIMESTAMP, sensor INTEGER, celsius DOUBLE, pressure DOUBLE, humidity DOUBLE, state VARCHAR'


def at(microseconds):
    return f"make_timestamp({int(microseconds)})"


def between(request):
    return f'"at" >= {at(request["from"])} AND "at" < {at(request["to"])}'


def connect(path, memory_bytes, has_key):
    config = {
        "memory_limit": f"{memory_bytes >> 20}MiB",
        # The newest rows of more than the default of 50 would read all columns of all rows.
        "late_materialization_max_rows": "1000",
    }
    database = duckdb.connect(path, config=config)
    key = ', PRIMARY KEY ("at", sensor)' if has_key else ""
    database.execute(f"CREATE TABLE IF NOT EXISTS readings ({SCHEMA}{key})")
    return database


def answer(cursor, request, rows, has_key):
    """What was asked for: an Arrow table, a number, or nothing. Values stand in the text of a query: `sql` runs one with
    parameters at once, into a copy that it reads again."""
    match request["do"]:
        case "append":
            insert = "INSERT OR REPLACE" if has_key else "INSERT"
            if isinstance(rows, pa.Table):
                cursor.execute(f"{insert} INTO readings SELECT * FROM rows")
            else:
                cursor.execute(f"{insert} INTO readings VALUES (?, ?, ?, ?, ?, ?)", rows)
        case "flush" | "reclaim":
            cursor.execute("CHECKPOINT")
        case "all":
            return cursor.sql("SELECT * FROM readings").to_arrow_table()
        case "range":
            return cursor.sql(f'SELECT * FROM readings WHERE {between(request)} ORDER BY "at"').to_arrow_table()
        case "point":
            return cursor.sql(f'SELECT * FROM readings WHERE "at" = {at(request["time"])}').to_arrow_table()
        case "newest":
            rows = int(request["rows"])
            return cursor.sql(f'SELECT * FROM readings ORDER BY "at" DESC LIMIT {rows}').to_arrow_table()
        case "count":
            return cursor.execute("SELECT count(*) FROM readings").fetchall()[0][0]
        case "count between":
            return cursor.execute(f"SELECT count(*) FROM readings WHERE {between(request)}").fetchall()[0][0]
        case "cold":
            celsius = float(request["celsius"])
            return cursor.sql(f"SELECT * FROM readings WHERE celsius <= {celsius!r}::DOUBLE").to_arrow_table()
        case "delete":
            cursor.execute(f"DELETE FROM readings WHERE {between(request)}")
        case "delete before":
            cursor.execute(f'DELETE FROM readings WHERE "at" < {at(request["time"])}')
        case unknown:
            raise ValueError(f"unknown request {unknown}")
    return None


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        cursor = self.server.database.cursor()
        for line in self.rfile:
            request = json.loads(line)
            rows = None
            if "bytes" in request:
                with pa.ipc.open_stream(self.rfile.read(request["bytes"])) as reader:
                    rows = reader.read_all()
                if rows.num_rows == 1:
                    rows = [column[0].as_py() for column in rows.columns]
            begun = time.perf_counter()
            found = answer(cursor, request, rows, self.server.has_key)
            reply = {"seconds": time.perf_counter() - begun}
            stream = b""
            if isinstance(found, pa.Table):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, found.schema) as writer:
                    writer.write_table(found)
                stream = sink.getvalue()
                reply["bytes"] = stream.size
            elif found is not None:
                reply["number"] = found
            self.wfile.write(json.dumps(reply).encode() + b"\n")
            self.wfile.write(stream)
            self.wfile.flush()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main():
    socket, path, memory_bytes, key = sys.argv[1:]
    with Server(socket, Connection) as server:
        server.has_key = key == "key"
        begun = time.perf_counter()
        server.database = connect(path, int(memory_bytes), server.has_key)
        print("ready", time.perf_counter() - begun, flush=True)
        # Ends with the process that started it.
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        os._exit(0)


main()
