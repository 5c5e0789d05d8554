// Package runtimev1 is the contract between runtimed and a runtime server: the generated code of runtime.proto,
// whose comments are its specification.
package runtimev1

// ProtocolVersion is the version of the contract that this package describes.
const ProtocolVersion = 1
