// What went wrong, said where it is seen and heard.

import {$, setText} from './dom.js';
import {mayTryAgain} from './turn.js';

let offered = null;  // What `Try again` does.
let countdown = 0;

export function clearTrouble() {
  clearInterval(countdown);
  $('trouble').hidden = true;
  offered = null;
}

// `again`, where given, is offered if the same may succeed later: at once, or when the server said.
export function showTrouble(error, again = null) {
  clearTrouble();
  if (error.code === undefined) console.error(error);  // Our own fault.
  offered = mayTryAgain(error) ? again : null;
  $('again').hidden = !offered;
  $('trouble').hidden = false;
  setText($('trouble-text'), explain(error));
  let seconds = Math.ceil(error.retryAfter ?? 0);
  const tick = () => {
    $('again').disabled = seconds > 0;
    setText($('again'), seconds > 0 ? `Try again in ${seconds} s` : 'Try again');
    if (seconds-- <= 0) clearInterval(countdown);
  };
  countdown = setInterval(tick, 1000);
  tick();
}

// Runs what a button does, and shows what goes wrong; `again` does the same once more.
export async function attempt(what, again) {
  clearTrouble();
  try {
    await what();
  } catch (error) {
    showTrouble(error, again);
  }
}

export function setUpTrouble() {
  $('dismiss').onclick = clearTrouble;
  $('again').onclick = () => offered?.();
}

function explain({code, message}) {
  switch (code) {
    case 'SESSION_NOT_FOUND':
      return 'The server has no session of this name any more.';
    case 'SESSION_EXPIRED':
      return 'The session has expired: the server has dropped it.';
    case 'SESSION_BUSY':
      return 'The session is in another turn. Sessions take one at a time.';
    case 'NOT_CONNECTED':
      return 'The server can not be reached.';
    case 'CONNECTION_LOST':
      return 'The connection was lost. What had come until then is kept.';
    default:
      return code ? `${message} (${code})` : message;
  }
}
