#ifndef FERMATA_SERVER_OPENMP_WAITING_H_
#define FERMATA_SERVER_OPENMP_WAITING_H_

namespace fermata {

// oneDNN computes on OpenMP's threads, which spin between its products: beside our own pool's
// threads, which are then at work, that costs both. Makes them sleep instead. OpenMP reads how its
// threads wait from the environment, and does so before main: where the environment does not say it
// (OMP_WAIT_POLICY or GOMP_SPINCOUNT; what is there stands), the process is started again with it,
// as the same process. Call first in main. Returns where there is nothing to do, or no way to do it.
void MakeOpenMpSleep(char** argv);

}  // namespace fermata

#endif  // FERMATA_SERVER_OPENMP_WAITING_H_
