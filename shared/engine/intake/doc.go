// Package intake checks what a starter asks for before anything is written: its
// parameters and selector against what the definition takes, and whether an
// idempotency key belongs to it.
package intake
