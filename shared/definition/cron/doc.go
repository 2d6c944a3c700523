// Package cron says when a schedule comes next: five fields, and
// perhaps one of seconds before them. field.go reads the
// fields, next.go finds the moment, over the days on which clocks change too.
package cron
