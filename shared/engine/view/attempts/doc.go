// Package attempts puts the jobs of a step run together from its packs: attempt
// after attempt of each, those included that nobody has begun.
package attempts
