#include "client/cli/interrupt.h"

#include <utility>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "client/cli/arguments.h"

namespace fermata::cli {
namespace {

// SIGINT, and the one with which the destructor wakes the thread.
sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { Wait(); });
}

Interrupts::~Interrupts() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void Interrupts::SetAction(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
  interrupted_ = false;
}

bool Interrupts::interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_;
}

void Interrupts::Wait() {
  const sigset_t signals = Signals();
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (signal != SIGINT) continue;
    if (!action_ || interrupted_) _exit(kExitInterrupted);
    interrupted_ = true;
    action_();
  }
}

}  // namespace fermata::cli
