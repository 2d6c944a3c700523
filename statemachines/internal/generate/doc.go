// Command generate writes docs/lifecycle from the rows of package statemachines:
// a page for each layer, with its diagram, its moves, the matrix of all states
// and events and the reason of whatever does not move; an index; and the words
// of other engines. It is run by go generate ./statemachines.
//
// page.go renders a layer's page, vocabulary.go the words, index.go the index.
// A test holds the files on disk against what the rows say today.
package main
