// Package trouble keeps account of executions at which looks fail one after the
// other: it writes down since when and why, for people to see, and says when
// enough have failed to end the run.
package trouble
