// Package watch says who may look over a simulated world's shoulder: a [Watcher]
// is told of every write as it happens, before anybody else can act on it.
package watch
