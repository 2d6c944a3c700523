// Package web makes the HTTP interface, with the monitor page, out of an engine.
package httpserver
