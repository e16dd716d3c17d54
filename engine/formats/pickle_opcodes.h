#ifndef FERMATA_ENGINE_FORMATS_PICKLE_OPCODES_H_
#define FERMATA_ENGINE_FORMATS_PICKLE_OPCODES_H_

#include <cstdint>
#include <string>

namespace fermata {

// "operation STACK_GLOBAL (0x93)": an operation of any of pickle's protocols, for errors.
std::string PickleOpcodeText(uint8_t code);

}  // namespace fermata

#endif  // FERMATA_ENGINE_FORMATS_PICKLE_OPCODES_H_
