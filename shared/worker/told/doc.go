// Package told says in the words of package observe, which pack or job something is about and how
// that ends.
package told
