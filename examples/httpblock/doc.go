// Command httpblock serves a function block over HTTP with nothing but the
// standard library, as a program in any language would; docs/http-blocks.md tells
// what it is sent and what it answers.
//
// main.go is the program, block.json registers it.
package main
