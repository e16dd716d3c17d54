#ifndef FERMATA_CLIENT_MAKE_VOCABULARY_H_
#define FERMATA_CLIENT_MAKE_VOCABULARY_H_

#include <cstdint>
#include <string>

namespace fermata::make {

// The least vocabulary of the World kind: every byte, and id 0, which stands for no text.
inline constexpr int64_t kMinVocabulary = 257;

// A vocabulary file as of RWKV's World models, of `size` ids (at least kMinVocabulary, at most a
// million): lines of an id, a Python literal, and its length in bytes. After every single byte come
// made-up words, each with a space before it and without.
std::string MakeVocabulary(int64_t size);

}  // namespace fermata::make

#endif  // FERMATA_CLIENT_MAKE_VOCABULARY_H_
