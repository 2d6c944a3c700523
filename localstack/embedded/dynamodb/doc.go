// Package dynamodb runs DynamoDB on this machine: dynoxide, a program in one
// file that is pinned in ../package.json, as a child process.
//
//   - binary.go: where the program is, and what to do where it is not.
//   - process.go: start, readiness, stop. deathsig_linux.go lets the child die
//     with its parent, however the parent dies.
//   - tables.go: creates the product's tables as the infrastructure does on AWS.
//
// With a directory the data survive kill -9 of the child and of its parent;
// without one they are dropped with the process.
package dynamodb
