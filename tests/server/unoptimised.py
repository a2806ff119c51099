"""The command, whose graphs are run as they were traced: making them faster takes longer than the tests run them.

The program's arguments are the command's words.
"""

import sys

from tf_transformer import cli
from tf_transformer.terminal.process import quiet_tensorflow

if __name__ == "__main__":
    with quiet_tensorflow(streams=True):
        import tensorflow as tf
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    sys.argv[0] = "tf-transformer"
    cli.command()
