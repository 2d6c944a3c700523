//go:build !unix

package render

import "os"

// terminalWidth is 0: nothing is cut.
func terminalWidth(*os.File) int { return 0 }
