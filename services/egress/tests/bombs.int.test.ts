// What is packed passes as it is: the egress service unpacks nothing, in neither direction.

import { once } from "node:events";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { sha256 } from "#shared/ids/ids.ts";
import { startEgressForTest } from "../testing/egress-under-test.ts";
import { listening } from "../testing/stand-ins.ts";

const MIB = 1024 * 1024;
const MEMBERS = 8;
/** Members of a gzip file follow each other: 512 MiB in half a MiB. */
const BOMB = Buffer.concat(Array<Buffer>(MEMBERS).fill(gzipSync(Buffer.alloc(64 * MIB))));
const GROWTH_MIB_MAX = 64;

describe("bombs through the egress service", () => {
  it("pass on packed, as a request and as an answer", async () => {
    const egress = await startEgressForTest({ names: { "allowed.example": ["127.0.0.1"] } });
    try {
      const uploads: Buffer[] = [];
      const bombs = createServer(async (request, response) => {
        for await (const chunk of request) uploads.push(Buffer.from(chunk));
        const headers = { "content-type": "text/plain", "content-encoding": "gzip", "content-length": BOMB.byteLength };
        response.writeHead(200, { ...headers, connection: "close" }).end(BOMB);
      });
      const { port } = await listening(bombs, egress.resources);
      const host = `allowed.example:${port}`;
      const socket = await egress.pipe(egress.sandbox({ mode: "allow", allow: [host] }));
      const before = process.memoryUsage().rss;
      const head = [
        `POST http://${host}/ HTTP/1.1`,
        `host: ${host}`,
        "content-encoding: gzip",
        "accept-encoding: gzip",
      ];
      socket.write(`${head.join("\r\n")}\r\ncontent-length: ${BOMB.byteLength}\r\nconnection: close\r\n\r\n`);
      socket.write(BOMB);
      const answer: Buffer[] = [];
      socket.on("data", (chunk: Buffer) => answer.push(chunk));
      await once(socket, "end");
      expect((process.memoryUsage().rss - before) / MIB).to.be.lessThan(GROWTH_MIB_MAX);
      expect(sha256(Buffer.concat(uploads))).to.equal(sha256(BOMB));
      const whole = Buffer.concat(answer);
      expect(whole.toString("latin1", 0, 500)).to.match(/content-encoding: gzip/i);
      expect(sha256(whole.subarray(-BOMB.byteLength))).to.equal(sha256(BOMB));
      const entry = await egress.entry(({ reason }) => reason === "ended");
      expect(entry.bytesDown).to.be.within(BOMB.byteLength, BOMB.byteLength + 1_000);
    } finally {
      await egress.close();
    }
  });
});
