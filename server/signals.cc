#include "server/signals.h"

#include <thread>

#include <signal.h>
#include <unistd.h>

#include "server/observe/logging.h"

namespace fermata {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

const char* NameOf(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

}  // namespace

Signals::Signals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([this] { Run(); }).detach();
}

void Signals::HoldForStop() {
  const std::lock_guard lock(mutex_);
  holding_ = true;
}

const char* Signals::WaitForStop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ != 0; });
  return NameOf(stop_);
}

void Signals::Run() {
  const sigset_t set = StopSignals();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    const std::lock_guard lock(mutex_);
    if (!holding_ || stop_ != 0) {
      LogEvent(LogLevel::kWarning, "stopped_at_once", {{"signal", NameOf(signal)}});
      _exit(holding_ ? 128 + signal : 0);
    }
    stop_ = signal;
    changed_.notify_all();
  }
}

}  // namespace fermata
