// Package program makes the expressions of a definition ready to be evaluated,
// and checks when it is published that they read only what can be there.
//
//   - compile.go compiles what stands in steps, acquire.go what a definition
//     acquires, start.go when a run may begin.
//   - reads.go checks what expressions of steps read; paths.go knows where each
//     of them stands in the document.
//   - program.go is what the engine evaluates.
package program
