// Package roster keeps a simulated world's polling workers.
package roster
