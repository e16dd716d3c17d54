# The libraries of deploy/packages.txt, each as one target.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(absl REQUIRED)
find_package(protobuf CONFIG QUIET)
if(NOT protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()
find_package(gRPC CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Boost 1.81 REQUIRED)
if(FERMATA_TESTS OR NOT DEFINED FERMATA_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

find_package(PkgConfig REQUIRED)
foreach(library libhwy libhwy-contrib libpcre2-8 libutf8proc libxxhash sqlite3)
  pkg_check_modules(${library} REQUIRED IMPORTED_TARGET ${library})
endforeach()
# What tests compare with. Not for the engine: it carries another Protocol Buffers runtime than
# gRPC's, and no process can hold both.
if(FERMATA_TESTS OR NOT DEFINED FERMATA_TESTS)
  pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
endif()

# oneDNN's own package file asks for OpenCL's headers, which only its GPU engine needs.
find_library(FERMATA_DNNL dnnl REQUIRED)
find_path(FERMATA_DNNL_INCLUDE dnnl.hpp REQUIRED)
add_library(DNNL::dnnl SHARED IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES
  IMPORTED_LOCATION ${FERMATA_DNNL}
  INTERFACE_INCLUDE_DIRECTORIES ${FERMATA_DNNL_INCLUDE})
