// Package graveyard is a simulated queue beside its dead letters.
package graveyard
