// The server's figures, live.

import {api} from './api.js';
import {$, bytes, count, figure, plural, setText} from './dom.js';
import {Pair, scaleFor} from './memory.js';

const kEvery = 1000;

export class Stats {
  // `connected` is called when the server answers after it did not, or is another process.
  constructor(connected) {
    this.connected = connected;
    this.answers = null;  // Whether it answered last time.
    this.since = null;    // When it started, in seconds.
    this.last = null;
    this.total = new Pair($('total-bars'), true);
    this.timer = 0;
    document.addEventListener('visibilitychange', () => this.poll());
    this.poll();
  }

  async poll() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    let samples = null;
    try {
      samples = await api.metrics();
    } catch {
      // Shown below.
    }
    if (samples) this.show(samples);
    document.body.classList.toggle('alone', !samples);
    const since = samples?.get('process_start_time_seconds') ?? this.since;
    const another = this.since !== null && since !== this.since;
    if (samples && (this.answers === false || another)) this.connected();
    this.answers = samples !== null;
    this.since = since;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), kEvery);
  }

  show(samples) {
    const get = (name) => samples.get(name) ?? 0;
    const now = {time: performance.now(), tokens: get('fermata_tokens_total{direction="out"}')};
    if (this.last && now.tokens >= this.last.tokens) {
      const rate = (now.tokens - this.last.tokens) * 1000 / (now.time - this.last.time);
      setText($('rate'), count(rate));
    }
    this.last = now;
    setText($('running'), count(get('fermata_running_requests')));
    setText($('queued'), count(get('fermata_queued_requests')));
    setText($('resident'), bytes(get('process_resident_memory_bytes')));
    this.showTotal(samples);
  }

  showTotal(samples) {
    const state = samples.get('fermata_session_state_bytes');
    const kv = samples.get('fermata_session_kv_equivalent_bytes');
    const one = samples.get('fermata_state_bytes_per_session');
    if (state === undefined || kv === undefined || !one) return;
    const tiers = [...samples]
        .map(([name, value]) => [/^fermata_sessions\{tier="(\w+)"\}$/.exec(name)?.[1], value])
        .filter(([tier]) => tier);
    const sessions = tiers.reduce((sum, [, value]) => sum + value, 0);
    setText($('how-many'), count(sessions));
    setText($('total-title'), `All ${plural(sessions, 'session')}`);
    this.total.show(state, kv, scaleFor(one, Math.max(state, kv)));
    const where = tiers.filter(([, value]) => value > 0)
        .map(([tier, value]) => `${count(value)} ${tier === 'memory' ? 'in' : 'on'} ${tier}`);
    const saved = state > 0 && kv > state ? `KV caches: ${figure(kv / state)} times as much` : '';
    setText($('total-note'), [where.join(', '), saved].filter(Boolean).join(' · '));
  }
}
