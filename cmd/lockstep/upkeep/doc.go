// Package upkeep is what operators keep the service in order with: putting back
// what queues have given up on, and seeing what the alarm clock would do.
package upkeep
