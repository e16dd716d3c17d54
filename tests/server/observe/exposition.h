#ifndef FERMATA_TESTS_SERVER_OBSERVE_EXPOSITION_H_
#define FERMATA_TESTS_SERVER_OBSERVE_EXPOSITION_H_

#include <map>
#include <string>

#include "server/observe/gauges.h"
#include "server/observe/metrics.h"

namespace fermata {

// Prometheus' text format, read by its own rules.
struct Exposition {
  std::map<std::string, std::string> types;     // By family.
  std::map<std::string, std::string> helps;     // By family.
  std::map<std::string, double> samples;        // By name and labels as they stand.
  std::map<std::string, std::string> families;  // Of each sample.
};

// Fails the test where `text` breaks them.
Exposition ParseExposition(const std::string& text);

// What a server with a model could tell: each figure is another.
ServingStats FullStats();

// Has something of each kind happen.
void HaveAllHappen(Metrics& metrics);

}  // namespace fermata

#endif  // FERMATA_TESTS_SERVER_OBSERVE_EXPOSITION_H_
