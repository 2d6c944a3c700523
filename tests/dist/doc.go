// Package dist checks that what is deployed can be built again: whoever has the
// source of a release gets the bytes of its functions. cmd/sbom writes what they
// are made of.
package dist
