package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newBlocks(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blocks",
		Short: "List and register function blocks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.Blocks(cmd.Context()), 0,
				[]string{"BLOCK", "RUNS ON", "POOL", "IS"},
				func(b workflow.Block) []string {
					return []string{b.Ref().String(), dash(b.RunOn), dash(b.Pool), dash(nature(b))}
				})
		},
	}
	cmd.AddCommand(newBlocksRegister(c))
	return cmd
}

// nature lists what a block promises.
func nature(b workflow.Block) string {
	var is []string
	if b.Pure {
		is = append(is, "pure")
	}
	if b.Idempotent {
		is = append(is, "idempotent")
	}
	if b.Reversible {
		is = append(is, "reversible")
	}
	return strings.Join(is, ",")
}

func newBlocksRegister(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "register FILE",
		Short: "Register blocks from a JSON object or array (- reads standard input)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			source, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			blocks, err := decodeBlocks(source)
			if err != nil {
				return &fileError{args[0], err}
			}
			for _, b := range blocks {
				created, err := api.RegisterBlock(cmd.Context(), b)
				if err != nil {
					return &fileError{args[0], called(err)}
				}
				if c.output == "table" {
					what := "registered"
					if !created {
						what = "unchanged"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", what, b.Ref())
				}
			}
			if c.output == "json" {
				return printJSON(cmd, blocks)
			}
			return nil
		},
	}
}

// decodeBlocks reads one block or a list of them; unknown fields are refused.
func decodeBlocks(source []byte) ([]workflow.Block, error) {
	source = bytes.TrimSpace(source)
	if len(source) > 0 && source[0] != '[' {
		source = append(append([]byte("["), source...), ']')
	}
	var blocks []workflow.Block
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	err := d.Decode(&blocks)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return nil, fmt.Errorf("%s cannot be a %s", cmp.Or(kind.Field, "a block"), kind.Value)
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("it is not JSON: %w, at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it is not JSON: it ends too early")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case len(blocks) == 0:
		return nil, errors.New("it holds no block")
	}
	return blocks, nil
}
