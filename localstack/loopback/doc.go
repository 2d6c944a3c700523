// Package loopback is about servers on 127.0.0.1 that this process starts: a port for
// one, and when it answers.
package loopback
