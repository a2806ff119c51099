# What back-translated text is worth: a few pairs alone, and with back-translations of the rest of a corpus, of which
# only the target side is used; see docs/more_text.md.
#
#   make -f train/back_translation.mk DATA=FOLDER
#
# takes hours, and the same command goes on after an interruption: make looks which files are there, and each training
# and translation goes on where it was.
#
# FOLDER holds train, val and test files as RECIPE names them. For each seed: a model learns to translate back from the
# pairs, it translates the monolingual text, and two models are trained, on the pairs alone and on both.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

RECIPE ?= train/recipes/tatoeba_en_de_small.yaml
DATA ?= data/tatoeba
OUT ?= runs/back_translation
SOURCE ?= en
TARGET ?= de
TEST ?= test
# Pairs that are kept as such, drawn at random, and how often each of them comes for one back-translation.
PAIRS ?= 20000
WEIGHT ?= 3
SEEDS ?= 1
# Options of all trainings, and of `backtranslate`.
TRAIN ?= --set model.dropout_rate=0.3 --set training.early_stopping=6
BACK ?= --source-script Latin --target-script Latin

TEXT := $(OUT)/text
pairs = $(abspath $(TEXT))/train
genuine = {files: [$(pairs).$(SOURCE), $(pairs).$(TARGET)], weight: $(WEIGHT)}
back = {files: [$(abspath $(OUT))/back-$*/source.txt, $(abspath $(OUT))/back-$*/target.txt], tag: <bt>}
train = tf-transformer train $(RECIPE) --set data.root=$(DATA) --set seed=$* --run-dir $(@D) $(TRAIN)
# In YAML's quotes, since no, for Norwegian, would be false.
languages = --set 'data.source_language="$(TARGET)"' --set 'data.target_language="$(SOURCE)"'
reversed = --set 'data.$(1)=[$(2).$(TARGET), $(2).$(SOURCE)]'
# Lines as the package reads them, whatever program wrote the file, so that the same text is the same line.
lines = LC_ALL=C awk 'FNR == 1 { sub(/^\357\273\277/, "") } { sub(/\r$$/, "") } 1'

no_text = { echo "PAIRS=$(PAIRS) leaves no text of $(DATA)/train.$(TARGET) to translate back: give fewer" >&2; exit 1; }

# Whatever stands behind a bar only has to be there: a run that is scored again is not trained again.
.PHONY: all
.SECONDARY:
# Interrupted at the very end of a training, make would remove the scores that it has just written, and the same command
# would be refused by the finished training. These are the rules' own patterns: make heeds no others.
.PRECIOUS: $(OUT)/alone-%/scores.json $(OUT)/backward-%/scores.json $(OUT)/with-%/scores.json
all: $(SEEDS:%=$(OUT)/alone-%/scores.json) $(SEEDS:%=$(OUT)/with-%/scores.json)

# The corpus itself decides how it is shuffled, always in the same way. What val and test have is no monolingual text.
# A pair with a tab in it is left out: what stands behind the tab would count as its target.
$(TEXT):
	rm -rf $@.partial && mkdir -p $@.partial
	$(lines) $(DATA)/train.$(SOURCE) > $@.partial/source
	$(lines) $(DATA)/train.$(TARGET) > $@.partial/target
	paste $@.partial/source $@.partial/target | awk -F '\t' 'NF == 2' | shuf --random-source=$(DATA)/train.$(TARGET) > $@.partial/shuffled
	head -n $(PAIRS) $@.partial/shuffled | cut -f 1 > $@.partial/train.$(SOURCE)
	head -n $(PAIRS) $@.partial/shuffled | cut -f 2 > $@.partial/train.$(TARGET)
	tail -n +$$(($(PAIRS) + 1)) $@.partial/shuffled | cut -f 2 | awk '!seen[$$0]++' > $@.partial/rest
	$(lines) $(DATA)/val.$(TARGET) $(DATA)/$(TEST).$(TARGET) > $@.partial/held
	LC_ALL=C grep -avxFf $@.partial/held $@.partial/rest > $@.partial/mono.$(TARGET) || $(no_text)
	rm $@.partial/source $@.partial/target $@.partial/shuffled $@.partial/rest $@.partial/held
	mv $@.partial $@

$(OUT)/alone-%/scores.json: | $(TEXT)
	$(train) --set 'data.train=[$(pairs).$(SOURCE), $(pairs).$(TARGET)]'

$(OUT)/backward-%/scores.json: | $(TEXT)
	$(train) $(languages) $(call reversed,train,$(pairs)) $(call reversed,validation,val) $(call reversed,test,$(TEST))

$(OUT)/back-%: | $(OUT)/backward-%/scores.json
	tf-transformer backtranslate $(OUT)/backward-$* $(TEXT)/mono.$(TARGET) $@ $(BACK)

$(OUT)/with-%/scores.json: | $(OUT)/back-%
	$(train) --set 'data.train=[$(genuine), $(back)]'

# An unfinished training is resumed, though `evaluate` may have written its scores already.
unfinished := $(patsubst %/training_state,%/scores.json,$(wildcard $(OUT)/*/training_state))
$(unfinished): FORCE
.PHONY: FORCE
