// Package shape gives nouns the form in which they are seen from outside: those
// whose own JSON leaves out what is empty get every field, null if nothing; the
// views have that already and only lose their nil lists.
package shape
