#ifndef FERMATA_SERVER_OBSERVE_VLLM_NAMES_H_
#define FERMATA_SERVER_OBSERVE_VLLM_NAMES_H_

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace fermata {

// Appends the figures of `families` that vLLM shows too, under its names and with its labels
// (model_name and engine), for dashboards made for it and for the endpoint picker of Kubernetes'
// Gateway API inference extension. `families` are ours, of a server that has a model.
void AppendVllmNames(const std::string& model_name,
                     std::vector<prometheus::MetricFamily>& families);

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_VLLM_NAMES_H_
