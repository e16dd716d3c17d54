# cmake -D INPUT=file -D OUTPUT=file.cc -D HEADER=name -D CONSTANT=name -P embed_file.cmake
#
# Writes the definition of one constant of fermata_embed, which holds the bytes of INPUT.

file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................................)" "\\1\"\n    \"" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
file(SIZE ${INPUT} size)
file(WRITE ${OUTPUT}
"#include \"${HEADER}\"

namespace fermata::embedded {

constinit const std::string_view ${CONSTANT}(
    \"${bytes}\",
    ${size});

}  // namespace fermata::embedded
")
