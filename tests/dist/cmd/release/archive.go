package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"strings"
	"time"
)

// file is a file in an archive.
type file struct {
	name       string // with slashes
	content    []byte
	executable bool
}

func (f file) mode() fs.FileMode {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// epoch is the time of all files: archives of the same files have the same bytes. It is the
// first that a zip archive can name.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// writeArchive writes files into a zip archive, or a tar archive compressed with gzip.
func writeArchive(name string, files []file) error {
	pack := packTar
	if strings.HasSuffix(name, ".zip") {
		pack = packZip
	}
	content, err := pack(files)
	if err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o600)
}

func packZip(files []file) ([]byte, error) {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(f.mode())
		w, err := z.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return packed.Bytes(), err
}

func packTar(files []file) ([]byte, error) {
	var packed bytes.Buffer
	g := gzip.NewWriter(&packed)
	t := tar.NewWriter(g)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: int64(f.mode()), ModTime: epoch}); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := g.Close()
	return packed.Bytes(), err
}
