// The real fermata-server for these tests, on free ports.

import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {setTimeout as sleep} from 'node:timers/promises';

export class Server {
  // With `flags` beside those that all have; rejects, with the log, when it does not serve.
  static async start(flags = []) {
    const server = new Server(flags);
    try {
      await eventually(async () => {
        if (server.process.exitCode !== null) throw new Error('the server ended');
        server.port ||= JSON.parse(readFileSync(join(server.directory, 'ports'), 'utf8')).http;
        return (await fetch(`${server.url}readyz`)).ok;
      });
    } catch (error) {
      await server.stop('SIGKILL');
      throw new Error(`fermata-server does not serve (${error.message}); its log:\n${server.log}`);
    }
    return server;
  }

  constructor(flags) {
    this.directory = mkdtempSync(join(tmpdir(), 'fermata-web-'));
    this.port = 0;
    this.log = '';
    this.process = spawn(process.env.FERMATA_SERVER, [
      '--grpc_address=127.0.0.1:0', '--http_address=127.0.0.1:0', '--compute_threads=1',
      `--port_file=${join(this.directory, 'ports')}`, ...flags,
    ], {stdio: ['ignore', 'ignore', 'pipe']});
    this.process.stderr.setEncoding('utf8').on('data', (text) => { this.log += text; });
    this.ended = new Promise((resolve) => {
      this.process.on('exit', resolve).on('error', resolve);
    });
  }

  get url() {
    return `http://127.0.0.1:${this.port}/`;
  }

  // Ends it, and resolves to its exit code: null after SIGKILL.
  async stop(signal = 'SIGTERM') {
    this.process.kill(signal);
    const code = await this.ended;
    rmSync(this.directory, {recursive: true, force: true});
    return code;
  }
}

// Waits until `check` resolves to something true, and resolves to that; what it throws until then
// does not matter.
export async function eventually(check, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    let failure;
    try {
      const found = await check();
      if (found) return found;
      failure = new Error(`did not come true: ${check}`);
    } catch (error) {
      failure = error;
    }
    if (Date.now() > end) throw failure;
    await sleep(20);
  }
}
