// The npm package faktory-worker behind two small commands: send and consume.
// The interoperability tests run it; FAKTORY_URL names the server.
"use strict";

const fs = require("node:fs");
const faktory = require("faktory-worker");

const USAGE = `usage: main.js send --queue Q --name NAME --count N
       main.js consume --queue Q --slots N --record FILE`;

function options(words) {
  const found = {};
  for (let i = 0; i < words.length; i += 2) {
    if (!words[i].startsWith("--") || words[i + 1] === undefined) throw new Error(USAGE);
    found[words[i].slice(2)] = words[i + 1];
  }
  return found;
}

async function send({ queue, name, count }) {
  const client = await faktory.connect();
  for (let n = 0; n < Number(count); n++) {
    const job = client.job("pair", name, String(n), "Grüße <&> 🐈");
    job.queue = queue;
    // faktory-rs refuses a job without this field.
    job.reserveFor = 1800;
    if (n % 2 === 0) job.custom = { n };
    await job.push();
  }
  await client.close();
}

async function consume({ queue, slots, record }) {
  faktory.register("pair", (...args) => ({ job }) => {
    const line = { jid: job.jid, args, n: job.custom ? job.custom.n : null };
    fs.appendFileSync(record, JSON.stringify(line) + "\n");
  });
  await faktory.work({ queues: [queue], concurrency: Number(slots) });
}

const [mode, ...words] = process.argv.slice(2);
const run = { send, consume }[mode];
if (!run) throw new Error(USAGE);
run(options(words)).catch((error) => {
  console.error(error);
  process.exit(1);
});
