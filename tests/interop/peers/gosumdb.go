// Asks golang.org/x/mod/sumdb, as JSON on standard input, about checkpoints, proofs and tiles, and lets it sign.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const tileHeight = 8

type question struct {
	Note, Verifier, PrivateKey, Text, Tiles string
	Size                                    int64
	Root                                    string
	Inclusions                              []inclusion
	Consistencies                           []consistency
}

type inclusion struct {
	Index int64
	Leaf  string
	Proof []string
}

type consistency struct {
	Size  int64
	Root  string
	Proof []string
}

type answer struct {
	Text          string
	Verified      []string
	Refusal       string
	Inclusions    []string
	Consistencies []string
	Signed        string
	TileRoot      string
	TileProofs    [][]string
}

func main() {
	var q question
	must(json.NewDecoder(os.Stdin).Decode(&q))
	var a answer
	open(&q, &a)
	root := hash(q.Root)
	for _, each := range q.Inclusions {
		leaf, err := hex.DecodeString(each.Leaf)
		must(err)
		err = tlog.CheckRecord(hashes(each.Proof), q.Size, root, each.Index, tlog.RecordHash(leaf))
		a.Inclusions = append(a.Inclusions, said(err))
	}
	for _, each := range q.Consistencies {
		err := tlog.CheckTree(tlog.TreeProof(hashes(each.Proof)), q.Size, root, each.Size, hash(each.Root))
		a.Consistencies = append(a.Consistencies, said(err))
	}
	if q.PrivateKey != "" {
		signer, err := note.NewSigner(q.PrivateKey)
		must(err)
		signed, err := note.Sign(&note.Note{Text: q.Text}, signer)
		must(err)
		a.Signed = string(signed)
	}
	if q.Tiles != "" {
		readTiles(&q, &a, root)
	}
	must(json.NewEncoder(os.Stdout).Encode(a))
}

func open(q *question, a *answer) {
	verifier, err := note.NewVerifier(q.Verifier)
	must(err)
	opened, err := note.Open([]byte(q.Note), note.VerifierList(verifier))
	if err != nil {
		a.Refusal = err.Error()
		return
	}
	a.Text = opened.Text
	for _, signature := range opened.Sigs {
		a.Verified = append(a.Verified, fmt.Sprintf("%s+%08x", signature.Name, signature.Hash))
	}
}

// The reader verifies each tile against the root before it believes a hash in it.
func readTiles(q *question, a *answer, root tlog.Hash) {
	reader := tlog.TileHashReader(tlog.Tree{N: q.Size, Hash: root}, folder(q.Tiles))
	computed, err := tlog.TreeHash(q.Size, reader)
	must(err)
	a.TileRoot = hex.EncodeToString(computed[:])
	for _, each := range q.Inclusions {
		proof, err := tlog.ProveRecord(q.Size, each.Index, reader)
		must(err)
		var texts []string
		for _, value := range proof {
			texts = append(texts, hex.EncodeToString(value[:]))
		}
		a.TileProofs = append(a.TileProofs, texts)
	}
}

type folder string

func (f folder) Height() int { return tileHeight }

func (f folder) SaveTiles(tiles []tlog.Tile, data [][]byte) {}

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		// sumdb has the height in the path, tlog-tiles has not: "tile/8/0/000" is "tile/0/000".
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", tileHeight), "tile/", 1)
		data, err := os.ReadFile(filepath.Join(string(f), path))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func said(err error) string {
	if err == nil {
		return "accepted"
	}
	return err.Error()
}

func hash(text string) tlog.Hash {
	var value tlog.Hash
	data, err := hex.DecodeString(text)
	must(err)
	if len(data) != len(value) {
		panic("a hash has 32 bytes")
	}
	copy(value[:], data)
	return value
}

func hashes(texts []string) tlog.RecordProof {
	var all tlog.RecordProof
	for _, text := range texts {
		all = append(all, hash(text))
	}
	return all
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
