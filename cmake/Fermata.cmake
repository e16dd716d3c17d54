# Compiler settings of the whole tree, and the functions that the folders' CMakeLists.txt use.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(FERMATA_ASSERTIONS "Keep assert() in optimised builds" OFF)
set(FERMATA_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them")

# No -march: the kernels pick their instructions at run time, the rest must run on any x86-64.
# Designated initialisers name what they set; what they leave out is meant.
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers)
if(NOT FERMATA_ASSERTIONS)
  add_compile_definitions(NDEBUG)
endif()
if(FERMATA_SANITIZE)
  # Instrumented code that is not optimised compiles in half the time or less; what computes is
  # optimised all the same (see below). The warnings that follow the flow of data misfire in GCC 12 on
  # instrumented code; the other builds have them.
  add_compile_options(-fsanitize=${FERMATA_SANITIZE} -fno-omit-frame-pointer -O0
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread)
  if(FERMATA_SANITIZE MATCHES undefined)
    # These checks stand before every use of a pointer, and cost more time than all others together.
    # What they would find ends the process, or the address sanitizer tells of it.
    add_compile_options(-fno-sanitize=null,vptr,object-size,alignment)
  endif()
  # Kernels are one text for all instruction sets; two that nobody serves with are left to other builds.
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
  add_link_options(-fsanitize=${FERMATA_SANITIZE})
endif()
option(FERMATA_FUZZ "Build the fuzz targets for libFuzzer, which comes with clang" OFF)
if(FERMATA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=address,undefined)
endif()

find_program(FERMATA_CCACHE ccache)
if(FERMATA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FERMATA_CCACHE})
endif()
# A batch of files compiles in less than half the time of its files one by one, but a change to one of
# them takes longer: for builds that nobody edits under, and where nothing keeps what was compiled.
if(FERMATA_CCACHE)
  set(batches OFF)
else()
  set(batches ON)
endif()
option(FERMATA_BATCHES "Compile the files of a folder in batches" ${batches})
set(CMAKE_UNITY_BUILD ${FERMATA_BATCHES})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
if(FERMATA_BATCHES AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # What these say depends on what was inlined, and differs from one batch to the next; the last takes
  # every file of a batch for a header.
  add_compile_options(-Wno-error=restrict -Wno-error=maybe-uninitialized -Wno-error=array-bounds
    -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-subobject-linkage)
endif()

find_program(FERMATA_LLD ld.lld)
if(FERMATA_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Optimises a target of the folder that calls it under sanitizers too, if that folder's code, or what its
# tests compare with, would take minutes otherwise.
set(FERMATA_COMPUTES "/engine/(base|features|kernels|layers|mixers|model|sampling|tokenizer)$")
function(fermata_optimise_what_computes target)
  if(FERMATA_SANITIZE AND CMAKE_CURRENT_SOURCE_DIR MATCHES ${FERMATA_COMPUTES})
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# fermata_library(NAME [SOURCES files...] [DEPS libraries...] [PRIVATE_DEPS libraries...])
#
# The library of the folder that calls it. A library sees its own folder and the folders of what it
# links, under their names from the top of the tree, and no others: an include against the direction
# of the arrows does not compile.
function(fermata_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(view ${CMAKE_BINARY_DIR}/include/${name})
  get_filename_component(parent ${view}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${folder} SYMBOLIC)
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC ${view})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    fermata_optimise_what_computes(${name})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${view})
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# fermata_test_sources(TARGET files...)
#
# Gives a target of the tests its sources. Tests name their helpers as suits each file, so in batches
# what a file keeps in an unnamed namespace goes to one that is named after the file. A file with the
# property SKIP_UNITY_BUILD_INCLUSION stays out of batches.
function(fermata_test_sources target)
  fermata_optimise_what_computes(${target})
  if(NOT FERMATA_SANITIZE AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES ${FERMATA_COMPUTES})
    # Compiles in three quarters of the time. GCC 12 mistakes how coroutines release their frames there.
    target_compile_options(${target} PRIVATE -O1 -Wno-mismatched-new-delete)
  endif()
  if(NOT FERMATA_BATCHES)
    target_sources(${target} PRIVATE ${ARGN})
    return()
  endif()
  foreach(source ${ARGN})
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(alone)
      target_sources(${target} PRIVATE ${source})
      continue()
    endif()
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(copy ${CMAKE_CURRENT_BINARY_DIR}/${target}_batches/${source})
    string(MAKE_C_IDENTIFIER ${source} name)
    file(READ ${path} text)
    string(REPLACE "\nnamespace {\n" "\nnamespace ${name} {\n" text "${text}")
    if(NOT source MATCHES "_test[.]cc$")  # Those use it below, in what they share.
      string(REPLACE "\n}  // namespace\n" "\n} using namespace ${name};\n" text "${text}")
    endif()
    set(text "#line 1 \"${path}\"\n${text}")
    set(old)
    if(EXISTS ${copy})
      file(READ ${copy} old)
    endif()
    if(NOT text STREQUAL old)
      file(WRITE ${copy} "${text}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    target_sources(${target} PRIVATE ${copy})
  endforeach()
endfunction()

# fermata_test(NAME SOURCES files... [DEPS libraries...] [LABELS labels...] [TIMEOUT seconds]
#              [EACH_FILE])
#
# One test binary, which CTest runs as one test; with EACH_FILE as a test for each file, whose name is
# the file's behind the binary's. The label `threads` marks the suites that the thread sanitizer runs.
add_custom_target(thread_tests)
set(FERMATA_TEST_ENVIRONMENT
  FERMATA_SOURCE_DIR=${CMAKE_SOURCE_DIR}
  FERMATA_BINARY_DIR=${CMAKE_BINARY_DIR}
  FERMATA_SANITIZE=${FERMATA_SANITIZE}  # For tests that do less where all takes longer.
  # Several tests share the cores: OpenMP threads that spin for one another would starve them all.
  OMP_WAIT_POLICY=passive
  ASAN_OPTIONS=detect_stack_use_after_return=1
  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1)
function(fermata_test name)
  cmake_parse_arguments(ARG "EACH_FILE" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name})
  fermata_test_sources(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${FERMATA_TEST_VIEW})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set(tests ${name})
  if(ARG_EACH_FILE)
    set(tests)
    string(REGEX REPLACE "_test$" "" prefix ${name})
    foreach(source ${ARG_SOURCES})
      string(REGEX REPLACE "[.]cc$" "" test ${prefix}_${source})
      fermata_suites_of(${source} suites)
      add_test(NAME ${test} COMMAND ${name} --gtest_filter=${suites})
      list(APPEND tests ${test})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${FERMATA_TEST_ENVIRONMENT}")
  if("e2e" IN_LIST ARG_LABELS)
    set_tests_properties(${tests} PROPERTIES COST 1)  # They take longest, so they start first.
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests ${name})
  endif()
endfunction()

# Sets RESULT to the filter that GoogleTest takes for the suites of a file.
function(fermata_suites_of source result)
  file(STRINGS ${source} lines REGEX "^TEST(_F)?[(]")
  list(TRANSFORM lines REPLACE "^TEST(_F)?[(]([A-Za-z0-9]+).*" "\\2.*")
  list(REMOVE_DUPLICATES lines)
  list(JOIN lines ":" filter)
  if(NOT filter)
    message(FATAL_ERROR "${source} has no test")  # An empty filter would pass, and run nothing.
  endif()
  set(${result} ${filter} PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
endfunction()

# fermata_bench(NAME SOURCES files... [DEPS libraries...])
#
# One Google Benchmark binary.
add_custom_target(benchmarks)
function(fermata_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${FERMATA_TEST_VIEW})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} benchmark::benchmark)
  add_dependencies(benchmarks ${name})
endfunction()

# fermata_embed(TARGET FILES files...)
#
# Makes files of the folder that calls it part of its library TARGET, byte for byte. They are constants
# of "<folder>/embedded.h", named after the files: page.html of server/page is
#
#   #include "server/page/embedded.h"
#   fermata::embedded::kPageHtml   // a std::string_view, which lives as long as the process
set(FERMATA_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_file.cmake)
function(fermata_embed target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(view ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  set(header ${folder}/embedded.h)
  string(MAKE_C_IDENTIFIER ${target} guard)
  string(TOUPPER ${guard}_EMBEDDED_H_ guard)
  set(declarations)
  foreach(file ${ARG_FILES})
    set(constant k)
    string(REGEX MATCHALL "[A-Za-z0-9]+" words ${file})
    foreach(word ${words})
      string(SUBSTRING ${word} 0 1 first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(TOUPPER ${first} first)
      string(APPEND constant ${first}${rest})
    endforeach()
    string(APPEND declarations "extern const std::string_view ${constant};  // ${file}\n")
    set(input ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set(output ${view}/${file}.cc)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D INPUT=${input} -D OUTPUT=${output} -D HEADER=${header}
              -D CONSTANT=${constant} -P ${FERMATA_EMBED_SCRIPT}
      DEPENDS ${input} ${FERMATA_EMBED_SCRIPT}
      VERBATIM)
    set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${target} PRIVATE ${output})
  endforeach()
  file(CONFIGURE OUTPUT ${view}/${header} @ONLY CONTENT
"#ifndef @guard@
#define @guard@

#include <string_view>

namespace fermata::embedded {

@declarations@
}  // namespace fermata::embedded

#endif  // @guard@
")
  target_include_directories(${target} PUBLIC ${view})
endfunction()
