// Package logging makes the one logger that every binary logs with: JSON lines, none left out.
package logging

import (
	"flag"
	"fmt"
	"io"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Verbosity says how much is logged: 0 what an operator must see, 1 why a decision fell as well, 2 every detail.
type Verbosity int8

// AddFlag makes the verbosity settable on a command line, as --v.
func (v *Verbosity) AddFlag(flags *flag.FlagSet) {
	flags.Var(v, "v", "how much is logged: `level` 0, what an operator must see; 1, why a decision fell as well; 2, every detail")
}

// String returns the level.
func (v *Verbosity) String() string { return strconv.Itoa(int(*v)) }

// Set reads a level.
func (v *Verbosity) Set(text string) error {
	level, err := strconv.ParseUint(text, 10, 7)
	if err != nil {
		return fmt.Errorf("reading the level %q: it is no number from 0 to 127", text)
	}
	*v = Verbosity(level)
	return nil
}

// New makes a logger that writes to out.
func New(out io.Writer, v Verbosity) logr.Logger {
	sink := zapcore.Lock(zapcore.AddSync(out))
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), sink, zapcore.Level(-v))
	return zapr.NewLogger(zap.New(core, zap.AddCaller(), zap.AddStacktrace(zapcore.ErrorLevel), zap.ErrorOutput(sink)))
}
