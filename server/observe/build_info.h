#ifndef FERMATA_SERVER_OBSERVE_BUILD_INFO_H_
#define FERMATA_SERVER_OBSERVE_BUILD_INFO_H_

namespace fermata {

// The version of this build, for example "0.1.0".
const char* Version();

}  // namespace fermata

#endif  // FERMATA_SERVER_OBSERVE_BUILD_INFO_H_
