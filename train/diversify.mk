# Learns more from a small corpus without any other text, in three stages; see docs/distillation.md.
#
#   make -f train/diversify.mk DATA=FOLDER
#
# takes about a day, or longer in float32, and the same command goes on after an interruption: make looks which files
# are there, and each training and translation goes on where it was.
#
# 1. Forward and backward models, each with its seed, translate the training text. With the original pairs, theirs are
#    the diversified corpus (Nguyen et al., 2020).
# 2. Teachers are trained on it. Together, as an ensemble, they translate the training text once more.
# 3. Students are trained on all of that (Kim and Rush, 2016).
#
# FOLDER holds train, val and test files as RECIPE names them, which are the same for all models.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

RECIPE ?= train/recipes/multi30k_en_de_tok.yaml
DATA ?= data/multi30k/tok
TEST ?= test_2016_flickr
OUT ?= runs/diversified
SOURCE ?= en
TARGET ?= de
# Seeds: of the models of stages 1 and 2, and of the students.
MODELS ?= 1 2 3
STUDENTS ?= 1 2 3
# Options of all trainings, and of those of a stage, such as --set training.steps=28000.
TRAIN ?=
TEACHER ?=
STUDENT ?=
# Options of the translations, such as --beam-size 5.
TRANSLATE ?=

FORWARD := $(MODELS:%=$(OUT)/forward-%)
BACKWARD := $(MODELS:%=$(OUT)/backward-%)
TEACHERS := $(MODELS:%=$(OUT)/teacher-%)
reversed = --set data.$(1)=[$(2).$(TARGET),$(2).$(SOURCE)]
# In YAML's quotes, since no, for Norwegian, would be false.
back = --set 'data.source_language="$(TARGET)"' --set 'data.target_language="$(SOURCE)"' \
	$(call reversed,train,train) $(call reversed,validation,val) $(call reversed,test,$(TEST))

train = tf-transformer train $(RECIPE) --set data.root=$(DATA) --set seed=$* --run-dir $(@D) $(TRAIN)
on = --set 'data.train=[$(abspath $(1))/train.$(SOURCE), $(abspath $(1))/train.$(TARGET)]'
translate = tf-transformer translate $(1) $(2) --shards $@.shards --shard-lines 1000 --output $@ $(TRANSLATE)
# Lines as the package reads them, whatever program wrote the file, so that the same text is the same line.
lines = LC_ALL=C awk 'FNR == 1 { sub(/^\357\273\277/, "") } { sub(/\r$$/, "") } 1'
# Pairs, a line each; then their two files. A pair that is there already, or lacks a side, is left out.
pairs = $(lines) $(1) > $@.partial/source && $(lines) $(2) > $@.partial/target \
	&& paste $@.partial/source $@.partial/target || exit;
diverse = $(call pairs,$(DATA)/train.$(SOURCE),$(DATA)/train.$(TARGET)) \
	$(foreach model,$(FORWARD),$(call pairs,$(DATA)/train.$(SOURCE),$(model).$(TARGET))) \
	$(foreach model,$(BACKWARD),$(call pairs,$(model).$(SOURCE),$(DATA)/train.$(TARGET)))
distilled = $(call pairs,$(OUT)/diverse/train.$(SOURCE),$(OUT)/diverse/train.$(TARGET)) \
	$(call pairs,$(DATA)/train.$(SOURCE),$(OUT)/ensemble.$(TARGET))
write = awk -F '\t' 'NF == 2 && $$1 != "" && $$2 != "" && !seen[$$0]++' $@.partial/all > $@.partial/pairs \
	&& cut -f 1 $@.partial/pairs > $@.partial/train.$(SOURCE) && cut -f 2 $@.partial/pairs > $@.partial/train.$(TARGET) \
	&& wc -l $@.partial/pairs && rm $@.partial/all $@.partial/source $@.partial/target $@.partial/pairs && mv $@.partial $@

# Whatever stands behind a bar only has to be there: a run that is scored again is not trained again.
.PHONY: students teachers
.SECONDARY:
# Interrupted at the very end of a training, make would remove the scores that it has just written, and the same command
# would be refused by the finished training. These are the rules' own patterns: make heeds no others.
.PRECIOUS: $(OUT)/forward-%/scores.json $(OUT)/backward-%/scores.json $(OUT)/teacher-%/scores.json \
	$(OUT)/student-%/scores.json
students: $(STUDENTS:%=$(OUT)/student-%/scores.json)
teachers: $(TEACHERS:%=%/scores.json)

$(OUT)/forward-%/scores.json:
	$(train)

$(OUT)/backward-%/scores.json:
	$(train) $(back)

$(OUT)/forward-%.$(TARGET): | $(OUT)/forward-%/scores.json
	$(call translate,$(OUT)/forward-$*,$(DATA)/train.$(SOURCE))

$(OUT)/backward-%.$(SOURCE): | $(OUT)/backward-%/scores.json
	$(call translate,$(OUT)/backward-$*,$(DATA)/train.$(TARGET))

$(OUT)/diverse: | $(FORWARD:%=%.$(TARGET)) $(BACKWARD:%=%.$(SOURCE))
	mkdir -p $@.partial
	{ $(diverse) } > $@.partial/all
	$(write)

$(OUT)/teacher-%/scores.json: | $(OUT)/diverse
	$(train) $(call on,$(OUT)/diverse) $(TEACHER)

$(OUT)/ensemble.$(TARGET): | $(TEACHERS:%=%/scores.json)
	$(call translate,$(TEACHERS),$(DATA)/train.$(SOURCE))

$(OUT)/distilled: | $(OUT)/ensemble.$(TARGET)
	mkdir -p $@.partial
	{ $(distilled) } > $@.partial/all
	$(write)

$(OUT)/student-%/scores.json: | $(OUT)/distilled
	$(train) $(call on,$(OUT)/distilled) $(STUDENT)

# An unfinished training is resumed, though `evaluate` may have written its scores already.
unfinished := $(patsubst %/training_state,%/scores.json,$(wildcard $(OUT)/*/training_state))
$(unfinished): FORCE
.PHONY: FORCE
