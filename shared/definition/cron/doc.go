// Package cron says when a schedule of five fields comes next. field.go reads the
// fields, next.go finds the moment, over the days on which clocks change too.
package cron
