// Package calendar keeps the schedules of a simulated world, as an adapter of the
// port would: versions are compared, and the index of what is due may be read by
// anybody at any time.
package calendar
