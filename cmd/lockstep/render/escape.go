package render

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escaped returns a writer for people. It escapes control characters as in \x1b and \u202e; only
// tabs and line ends stay. Texts of executions, blocks and entities come from others: in a terminal
// their control characters could move the cursor, rewrite lines, or set the window's title or the
// clipboard, and bidirectional control characters could reorder the text beside them. [Raw] returns
// the writer for programs.
func Escaped(out io.Writer) io.Writer { return &escapingWriter{out} }

// Raw returns the writer below an [Escaped] one, and any other writer unchanged. Use it for JSON,
// for files, and for the terminal's own control sequences.
func Raw(out io.Writer) io.Writer {
	if w, ok := out.(*escapingWriter); ok {
		return w.out
	}
	return out
}

type escapingWriter struct{ out io.Writer }

func (w *escapingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, escape(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// OneLine escapes a text that must stay in its line or column, including tabs and line ends.
func OneLine(text string) string { return escape(text, "") }

// escape escapes what a terminal would act on, except for the characters in keep.
func escape(text, keep string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return unsafeInTerminal(r, keep) }) {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case !unsafeInTerminal(r, keep), r == utf8.RuneError:
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\r':
			out.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// unsafeInTerminal reports whether a terminal acts on a character instead of showing it. A byte
// that is not UTF-8 is decoded as [utf8.RuneError]; some terminals take it for a control character.
func unsafeInTerminal(r rune, keep string) bool {
	if strings.ContainsRune(keep, r) {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}
