#ifndef FERMATA_CLIENT_CLI_INTERRUPT_H_
#define FERMATA_CLIENT_CLI_INTERRUPT_H_

#include <functional>
#include <mutex>
#include <thread>

namespace fermata::cli {

// Takes Ctrl-C (SIGINT) while it lives: the first one runs the action that is set, on a thread of
// its own, so that it may do what a signal handler may not. Without an action, or a second time,
// the process ends with kExitInterrupted.
//
// To be made before any thread that should not receive the signal in its place.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Replaces the action (null: none) and forgets earlier signals. When this returns, the action
  // before it is not running and will not run.
  void SetAction(std::function<void()> action);
  // Whether the signal came since the action was set.
  bool interrupted() const;

 private:
  void Wait();

  mutable std::mutex mutex_;
  std::function<void()> action_;
  bool interrupted_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fermata::cli

#endif  // FERMATA_CLIENT_CLI_INTERRUPT_H_
