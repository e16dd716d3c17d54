#ifndef FERMATA_SERVER_OBSERVE_BUCKETS_H_
#define FERMATA_SERVER_OBSERVE_BUCKETS_H_

#include "prometheus/histogram.h"

namespace fermata {

// The upper bounds of histograms' buckets; docs/metrics.md states them.
using Buckets = prometheus::Histogram::BucketBoundaries;

// Seconds from a turn's arrival to its first token: .001 to 160, so that one dashboard reads them and
// those of other servers.
const Buckets& FirstTokenSeconds();
// Seconds between two tokens: .0005 to 2.5.
const Buckets& InterTokenSeconds();
// Seconds of whole calls and turns and their parts: .0005 to 1800.
const Buckets& CallSeconds();
// Seconds of what happens once a step of the model: .0001 to 5.
const Buckets& StepSeconds();
// Seconds until a state is there, which takes microseconds from memory and milliseconds from a disk.
const Buckets& RestoreSeconds();
// Sequences or commits together: powers of 2 to 512.
const Buckets& BatchSizes();
// Tokens of one step or turn: powers of 2, then of 4, to 262144.
const Buckets& TokenCounts();

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_BUCKETS_H_
